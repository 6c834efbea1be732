"""A trained run as one HTML file that needs no server and no network.

Reading order: model_file (the model as data), export (the page). ``javascript/`` runs the model in a worker of the
browser. ``page/`` connects the pages of the web UI, which they are made from, to the worker.
"""
