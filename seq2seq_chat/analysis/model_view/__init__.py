"""Measurements inside a trained model: ``beams``, ``vectors`` and ``model_internals``; ``figures`` draws them."""
