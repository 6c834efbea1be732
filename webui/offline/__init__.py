"""The pages for one model as a single file that needs no server.

Reading order: bundle, styles, page.
"""
