"""The Terminus 2 agent: a model with nothing but a terminal, whose keys it presses and whose screen it reads."""
