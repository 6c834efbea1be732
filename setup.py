"""Install with `pip install -c constraints.txt -e .`; constraints.txt pins exact versions.

The requirements have only those limits without which the newest versions do not work, so the wheel installs alone.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent
INIT = (HERE / "seq2seq_chat" / "__init__.py").read_text(encoding="utf-8")
README = HERE / "README.md"
VERSION = re.search(r'^__version__ = "([^"]+)"$', INIT, re.MULTILINE)
if VERSION is None:
    raise RuntimeError("seq2seq_chat/__init__.py has no line __version__ = …")

# The bundled experiments and corpora. Docker installs the requirements before copying them.
CONFIGS = {"seq2seq_chat.configs": "configs"} if (HERE / "configs").is_dir() else {}

setup(
    name="seq2seq-chat",
    version=VERSION[1],
    description="Train, check, analyze and talk to recurrent sequence-to-sequence models.",
    long_description=README.read_text(encoding="utf-8") if README.is_file() else "",  # Docker's image has no README
    long_description_content_type="text/markdown",
    author="seq2seq-chat contributors",
    project_urls={"The thesis": "https://github.com/vongruenigen/BA-ML-FS17"},
    license="MIT",
    classifiers=[
        "Development Status :: 5 - Production/Stable",
        "Environment :: Console",
        "Environment :: Web Environment",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    packages=[*find_packages(include=["seq2seq_chat", "seq2seq_chat.*", "webui", "webui.*"]), *CONFIGS],
    package_dir=CONFIGS,
    package_data={
        "seq2seq_chat": ["py.typed", "report/templates/*", "export/html/javascript/*", "export/html/page/*"],
        "seq2seq_chat.configs": [  # not *.json: a checkout may have experiments of its user
            *("copy_task.json", "overfit.json", "quickstart.json"),
            *("rnn*_*.json", "shakespeare*.json", "thesis_*.json", "sample/*.txt", "sample/*.tsv"),
            *("recipes/characters.json", "recipes/conversation.json", "recipes/dates.json"),
            *("recipes/translation.json", "recipes/words.json"),
        ],
        "webui": ["templates/**/*", "static/**/*"],
    },
    # TensorFlow 2.15 is the last version that tensorflow-addons supports, and it needs Python 3.10 or 3.11.
    python_requires=">=3.10,<3.12",
    install_requires=[
        "ahocorasick_rs",
        "Bootstrap-Flask",
        "choix",
        "click",
        "duckdb",
        "Flask",
        "Flask-Compress",
        "google-re2",
        "ibis-framework[duckdb]",
        "ijson",
        "Jinja2",
        "lxml",
        "matplotlib",
        "numpy<2",
        "onnx<1.19",  # later versions need other ml_dtypes than TensorFlow 2.15
        "onnxruntime",
        "orjson",
        "prometheus_client",
        "pyarrow<22",
        "pydantic>=2.7",
        "python-dateutil",
        "regex",
        "sacrebleu",
        "scikit-learn",
        "scipy",
        "sentencepiece",
        "setuptools<81",  # TensorBoard 2.15 imports pkg_resources, which version 82 removes
        "tensorboard",
        "tensorflow==2.15.1",
        "tensorflow-addons==0.23.0",
        "threadpoolctl",
        "tqdm",
        "waitress",
        "Werkzeug",
        "zstandard",
    ],
    extras_require={
        "dev": [
            "axe-playwright-python",
            "hypothesis",
            "jsonschema_rs",
            "mypy",
            "openai",
            "playwright",
            "pytest",
            "pytest-xdist",
            "PyYAML",
            "ruff",
            "types-tqdm",
        ],
        "slow": [  # what only slow tests need, in addition to dev
            "pyspark==4.0.5",
            "schemathesis",
        ],
        "benchmark": [  # contenders of scripts/benchmark_*.py
            "torch==2.13.0",
        ],
        "docs": [  # the site, see docs/README.md
            "furo",
            "myst-nb",
            "sphinx",
        ],
        "cuda": [  # CUDA and cuDNN for TensorFlow on NVIDIA GPUs; 3 GB
            "tensorflow[and-cuda]==2.15.1",
        ],
        "spark": [  # an engine of `prepare`; needs Java 17 or newer
            "pyspark==4.0.5",
        ],
    },
    entry_points={"console_scripts": ["seq2seq-chat = seq2seq_chat.cli:main"]},
)
