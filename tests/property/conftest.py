"""`--hypothesis-profile=campaign` looks for hours where the ordinary run looks for seconds."""

from hypothesis import settings

settings.register_profile("campaign", max_examples=5000, print_blob=True)
