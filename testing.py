"""What the tests of a bot author use: a scripted model and provider, a clock that stands still, ids that
count, recorded conversations, cases with scorers, and the suites for bridges and memory engines.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("nacre", __file__)
