"""How many random cases a property is tried with."""

from hypothesis import HealthCheck, settings


def examples(times):
    """So many times as many as the profile asks for."""
    return settings(
        max_examples=int(settings.default.max_examples * times),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
