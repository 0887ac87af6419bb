"""Compose files of tasks: read strictly, and their services started beside a sandbox, over the Engine API.

```
project    what a file says, as data
reader     from a file to a project, or one error that names all that is wrong in it
service    one service of a file
mounts     its volumes
values     texts, sizes, durations, lists and mappings
variables  `${NAME}` in a file, and the variables that tasks count on
bodies     from a service to the body of the engine's create call; pure
files      what containers find of the task's directory: mounted, or copied
start      networks, volumes and containers made, and started in order
```

Source of the format: the Compose Specification (github.com/compose-spec/compose-spec).
"""
