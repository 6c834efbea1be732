"""The image for GPUs, as far as it can be tested without one: CUDA's libraries are found, and it trains without a GPU.

Building it downloads 3 GB, so these tests run nightly: ./test.sh -m nightly tests/docker -s
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.docker.engine import REPOSITORY, Engine

pytestmark = pytest.mark.nightly

PROBE = Path(__file__).with_name("cuda_libraries.py")
CONFIG = (
    *("configs/quickstart.json", "--set", "training.steps=20", "--set", "training.log_every=10"),
    *("--set", "training.validate_every=20", "--set", "training.validation_limit=64"),
)


@pytest.fixture(scope="module")
def found(gpu_image: Engine) -> dict[str, Any]:
    """What the probe finds inside the image."""
    options = ("--entrypoint=python", "--env=TF_CPP_MIN_LOG_LEVEL=3")
    result: dict[str, Any] = json.loads(gpu_image.run("-c", PROBE.read_text(encoding="utf-8"), options=options))
    print(f"\n{json.dumps(result, indent=1)}\nbytes: {gpu_image.inspect(gpu_image.image)['Size']:,}")
    return result


def test_tensorflow_opens_every_cuda_library(found: dict[str, Any]) -> None:
    assert len(found["opened"]) == 9
    assert all(found["opened"].values()), found["opened"]
    packages = {Path(file).parts[-3] for file in found["files"] if "/site-packages/nvidia/" in file}
    assert {"cublas", "cuda_cupti", "cuda_runtime", "cudnn", "cufft", "cusolver", "cusparse", "nccl"} <= packages


def test_packages_have_the_pinned_versions_for_which_tensorflow_was_built(found: dict[str, Any]) -> None:
    cuda, packages = found["build"]["cuda_version"], found["packages"]
    for package in ("cuda-runtime", "cuda-nvcc"):
        assert packages[f"nvidia-{package}-cu12"].startswith(f"{cuda}.")
    assert packages["nvidia-cudnn-cu12"].startswith(f"{found['build']['cudnn_version']}.")
    first = next(filter(None, found["ptxas"].values()), "no ptxas in these folders")
    assert f"release {cuda}," in first, found["ptxas"]
    pins = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert {f"{name}=={version}" for name, version in packages.items()} <= {pin.split(" ")[0] for pin in pins}


def test_it_trains_on_the_processor_without_a_gpu(found: dict[str, Any], gpu_image: Engine) -> None:
    assert found["gpus"] == 0
    output = gpu_image.run("train", *CONFIG)
    assert "no GPU found: training on " in output
    (run,) = gpu_image.results.iterdir()
    assert output.splitlines()[-1] == f"results/{run.name}"
    assert json.loads((run / "end.json").read_text(encoding="utf-8"))["step"] == 20
