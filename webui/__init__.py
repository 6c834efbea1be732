"""The web UI: chat with any trained run, inspect its replies and follow its training.

Reading order: limits, model_stream, run_registry, decoding_options, model_worker, model_pool (from the name of a run to
replies, texts and searches), schemas, openapi, chat_answers, api, search_api, openai_api, security, app, server. The
pages in static/ use the same HTTP API as other programs.
"""
