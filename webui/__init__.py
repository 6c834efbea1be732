"""The web UI: chat with any trained run, inspect its replies and follow its training.

Reading order: limits, run_registry, decoding_options, model_stream, model_worker, model_pool (from the name of a run to
replies, texts and searches), schemas, openapi, streaming, chat_answers, api, search_api, security, app, server. The
pages in static/ use the same HTTP API as other programs.
"""
