"""Several gateways on one Redis, in processes of their own, and what befalls them: `make cluster`.

`plans.py` says what befalls them, `checks.py` what has to hold all the same; the rest is their world: people who write
(`crowd.py`), gateways (`gateways.py`), a model (`model.py`), a network that can be cut (`network.py`) and clocks that
differ (`clock/`).
"""
