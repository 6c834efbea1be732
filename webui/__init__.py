"""The web page: talk to any trained model, and see why it said that.

Reading order: limits, catalogue, options, models (from a run's name to replies, many people at once), protocol, api,
openapi, security, pages, app, server. The page in static/ asks the same HTTP interface that programs use.
"""
