#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes out every guard of the reader in turn and holds what notices against
# docs/guards.md (tests/mutation/run.py). After a change to a guard or a row: with
# --write, which writes that page anew.
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/setup.sh test
exec .venv/bin/python tests/mutation/run.py "$@"
