"""Everything of a release is replaced while a job trains, which has its epochs in the end, each
once, without a failed trainer and as good as one that nobody disturbed."""

from __future__ import annotations

import json
import pathlib
import socket
import ssl
import sys
from typing import Any

from certificates import ROLES, Certificates
from cluster import Cluster, ClusterError, wait_until
from images import NEXT_TAG
from release import NAMESPACE, RELEASE, Release
from steps import Steps, check_job

EPOCHS = 24
POINTS_OF_P_AT_1 = 0.01
VALUES = pathlib.Path(__file__).with_name("upgrades.yaml")
