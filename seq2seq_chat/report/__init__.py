"""The report on one or several runs: ``measure``, then ``page``, ``chapters`` and ``model_chapters``, and ``build``."""
