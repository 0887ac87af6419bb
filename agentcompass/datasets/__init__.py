"""Getting published data sets into `data_dir`, once. Knows nothing of evaluation.

```
obtain     obtain: a source -> Obtained(directory, revision)
sources    GitSource, HubSource, RegistrySource
```

Below: `hub`, `git`, `lfs` and `registry` (how each kind of source is asked), `shelf` (where data sets stand), `batch`,
`download` and `web` (many files, one file, one request), `processes` (running git), `names` (what others may call files).
"""

from agentcompass.datasets.obtain import obtain
from agentcompass.datasets.shelf import Obtained
from agentcompass.datasets.sources import GitSource, HubSource, RegistrySource, Source

__all__ = ["GitSource", "HubSource", "Obtained", "RegistrySource", "Source", "obtain"]
