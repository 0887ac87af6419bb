"""A client of the Docker Engine API, for Docker and Podman, on trio. Knows nothing of evaluation.

```
run        commands in a container, of which nothing is left: run, program
archive    files in and out: stat, read, write, upload, download
life       containers: create, start, inspect, running, wait, stop, kill, restart, pause, listed, logs, remove
resources  networks and volumes
images     Images: inspect, ensure (pull), build, each once at a time
names      is_image_name
figures    what a container has used: memory peak, processor time, throttling, out-of-memory kills
processes  end_command, end_all, and that a container's own are as they were: note
client     Docker, connect: versions, requests, deadlines
```

Everything takes a `client.Docker` first and a container's name or id second:

```python
async with connect() as docker:
    await life.create(docker, name, {"Image": image, "Cmd": ["sleep", "3600"], "HostConfig": {"Init": True}})
    await life.start(docker, name)
    ended = await run(docker, name, ContainerCommand(argv=["ls"]), stdout=kept.add, stderr=kept.add, timeout=10)
    await life.remove(docker, name)
```

Each failure is a `DockerError`, which is a `SandboxError` with a stable `code`. Every call has a deadline of its own;
where time is the caller's, it is an argument. What makes something is awaited also under cancellation and then undone
(`settle`); so is what ends a command. Nothing blocks the event loop, and nothing limits how many calls run at once.

Below: `attach` (one command as the engine runs it), `outside`, `inside` and `cgroups` (finding and ending processes),
`untouched` (whether one was taken over), `endings` (who has ended a container),
`frames`, `tars`, `bodies`, `builds` (formats), `wire`, `address`, `errors`, and `sdk` (what is left to the `docker`
package).
"""
