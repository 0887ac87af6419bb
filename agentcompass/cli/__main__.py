"""`python -m agentcompass.cli`."""

from agentcompass.cli.entry import main

main()
