"""The gateway: the model for agents that bring their own client, as a small HTTP server for one sandbox.

```
service    one connection: who may ask, which path is which call, what is answered
gate       all connections of one sandbox: its key, its end, what ends the block around it
request    from a program's request to the one that the endpoint gets; pure
passage    from the endpoint's answer to the program, piece by piece
refusals   errors in the form of each protocol; pure
```
"""

from __future__ import annotations

from agentcompass.components.models.gateway.gate import serve

__all__ = ["serve"]
