"""The course around the package: exercises, experiments, results, workshop and classroom."""

from bertedu.machine import use_one_thread

use_one_thread()
