"""The package mini-swe-agent by itself, with its own model client and environment: `... URL FOLDER SECONDS CONFIG`.

In a process of its own, since its model client takes seconds to import and prints. Writes how it ended as JSON.
"""

import json
import os
import sys

url, folder, seconds, config = sys.argv[1:]
os.environ |= {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True", "MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": folder, "OPENAI_API_KEY": "key",
}  # fmt: skip

from minisweagent.agents.default import DefaultAgent  # noqa: E402
from minisweagent.config import get_config_from_spec  # noqa: E402
from minisweagent.environments.local import LocalEnvironment  # noqa: E402
from minisweagent.models.litellm_model import LitellmModel  # noqa: E402

sections = get_config_from_spec(config)
model = sections["model"] | {"model_name": "openai/org/model"}
model["model_kwargs"] |= {"api_base": url}
env = {"PAGER": "cat"}
agent = DefaultAgent(
    LitellmModel(**model),
    LocalEnvironment(cwd=folder, timeout=int(seconds), env=env),
    **sections["agent"],
)
info = agent.run("Fix it.")
print(json.dumps({"info": info, "messages": agent.messages}, default=str), file=sys.stderr)
