"""The service is killed at random moments under load."""

import sys

import pytest
from kill_service import kill_often


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_the_service_killed_at_random_moments_loses_nothing(tmp_path):
    acknowledged, learned = kill_often(tmp_path, 15)
    assert 500 < acknowledged <= learned
