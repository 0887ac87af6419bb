"""The environment `docker`: each sandbox is a container of a Docker or Podman engine.

```
environment  the component: checks, images, opening and removing
params       what a user may set, and what is wrong with it
config       the body of the engine's create call; pure
engine       the one connection that all sandboxes share
supply       the images of a run
progress     what people are told while one is pulled or built
compose      the services that a task has beside its sandbox
making       from a plan to running containers
belongings   all that was made for a lease, removed
session      commands and files of an open container
relay        the way out for allowed hosts, of sandboxes without a network
storage      what a container has written, where its engine cannot limit it
```
"""
