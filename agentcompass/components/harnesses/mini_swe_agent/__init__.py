"""The harness `mini_swe_agent`: the real package `mini-swe-agent` drives; sandbox and model are ours.

`harness` is what the engine sees; `config` says what the agent is told; `crossing` is the way from its thread to our
task; `driver` puts the package together with ours, and alone imports it; `conversation` translates between its messages and
ours.
"""
