"""The parts of `pytest --regrow`; `regrow.pytest_plugin` says how they belong together."""
