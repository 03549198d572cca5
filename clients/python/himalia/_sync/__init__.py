"""Made from `_async` by `generate.py`: change that one."""
