"""How much memory a long training, chat or server loses with each step or reply. Run these in a process of their own.

Memory is what the system counts as resident, after a garbage collection and with free pages returned to the system.
"""

import http.client
import io
import json
from pathlib import Path
from unittest.mock import patch

import numpy as np

from seq2seq_chat.system.versions import load_tensorflow

EVERY = 200  # calls between two measurements
WARM_UP = 0.25  # of the calls, in which caches fill


class Memory:
    """Measures this process at every 200th call."""

    def __init__(self) -> None:
        self._calls, self._measured = 0, list[tuple[int, int]]()

    def count(self, *_: object) -> None:
        """Count a call."""
        self._calls += 1
        if self._calls % EVERY == 0:
            self._measured.append((self._calls, self._resident()))

    def growth(self) -> float:
        """Bytes per call: the slope of a straight line through the measurements after the warm-up."""
        calls, memory = np.array(self._measured, float)[int(WARM_UP * len(self._measured)) :].T
        return float(np.polyfit(calls, memory, 1)[0])

    @staticmethod
    def _resident() -> int:
        from webui.model_worker import release_memory

        release_memory()
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def training_growth(config_file: Path, results: Path) -> float:
    """Bytes per step of a training."""
    load_tensorflow()
    from seq2seq_chat.config import load_config
    from seq2seq_chat.training.experiment import train
    from seq2seq_chat.training.reporter import Console

    memory = Memory()
    with patch.object(Console, "advance", memory.count):
        train(load_config(config_file), results)
    return memory.growth()


def chat_growth(run: Path, overrides: dict[str, object], replies: int) -> float:
    """Bytes per reply of ``seq2seq-chat chat`` in a pipeline."""
    load_tensorflow()
    from seq2seq_chat.chat.chatbot import Chatbot
    from seq2seq_chat.cli.conversation import ReplyFormat, answer_lines
    from seq2seq_chat.config import override_decoding
    from seq2seq_chat.runs.run import Run
    from seq2seq_chat.system.hardware import TENSORFLOW

    memory = Memory()

    class Out(io.StringIO):
        def flush(self) -> None:
            memory.count()
            self.seek(0)
            self.truncate()

    class In(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:  # one line at a time
            return self.readline()

    bot = Chatbot.load(Run(run), engine=TENSORFLOW)
    decoding = override_decoding(bot.config.decoding, **overrides)
    answer_lines(bot, decoding, ReplyFormat(scores=True), In(b"".join(map(utterance, range(replies)))), Out())
    return memory.growth()


def page_growth(results: Path, decoding: dict[str, object], replies: int) -> float:
    """Bytes per reply of ``seq2seq-chat serve`` to a client in the same process."""
    load_tensorflow()
    from webui.app import create_app
    from webui.limits import Limits
    from webui.server import running

    memory, limits = Memory(), Limits(max_queued_total=4)
    with (
        patch("webui.limits.MAX_FOLLOWERS", 0),  # few threads, so that all have used their stacks after the warm-up
        running(create_app(results, limits), "127.0.0.1", 0, limits) as server,
    ):
        client = http.client.HTTPConnection("127.0.0.1", server.effective_port, timeout=60)
        for number in range(replies):
            body = {"run": "latest", "text": utterance(number).decode(), "history": ["hello"], "decoding": decoding}
            client.request("POST", "/api/chat", json.dumps(body), {"Content-Type": "application/json"})
            response = client.getresponse()
            assert response.status == 200, response.read()
            response.read()
            memory.count()
        client.close()
    return memory.growth()


def utterance(number: int) -> bytes:
    """One of many utterances, with words that the vocabulary knows and one that it may not know."""
    return f"you see the tree{number % 10} and the house{number} ?\n".encode()
