"""What harnesses of programs have in common that run in the sandbox and bring their own client.

```
params       what users may set
published    where a program is published, and for which machines
supply       bringing it: kept on this machine, shown to sandboxes or uploaded
place        a sandbox as such a program finds it
running      starting it, and its events as they come
account      the trajectory: what the model said, what came of its calls
agent        the harness
```
"""
