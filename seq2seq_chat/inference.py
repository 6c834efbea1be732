"""The old place of chatbot and generator, which are in ``seq2seq_chat.chat``; it will go with version 1.0."""

import sys
import warnings

from seq2seq_chat.chat import chatbot, generator

warnings.warn("seq2seq_chat.inference is now seq2seq_chat.chat", DeprecationWarning, stacklevel=2)
sys.modules.update({f"{__name__}.chatbot": chatbot, f"{__name__}.generator": generator})
