"""Asks Kubernetes' own checks of the Pod Security Standards which pods the standard `restricted` forbids.

The checks are those of the admission controller (k8s.io/pod-security-admission, see `admission/`), in a program that
`setup_pod_security` of scripts/helm.sh builds. It needs Go and, once, the Go module proxy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from tests.helm.chart import KUBERNETES, Manifest

_PROGRAM: Final = "pod-security"


def forbidden(pods: Mapping[str, Manifest], versions: tuple[str, ...] = KUBERNETES) -> dict[str, list[str]]:
    """The reasons why pods are forbidden under `restricted`, by the pods' names; allowed pods are left out.

    Args:
        pods: pods or pod templates, with `metadata` and `spec`.
        versions: versions of Kubernetes, because the standards changed between them.
    """
    assert shutil.which(_PROGRAM), f"{_PROGRAM} is not on the PATH; scripts/test builds it, with Go (scripts/helm.sh)"
    run = subprocess.run(
        [_PROGRAM, *(f"v{version}" for version in versions)],
        input=json.dumps(pods),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, list[str]] = json.loads(run.stdout)
    return found
