# `make` lists what there is. Works with GNU make 3.81 (macOS) and newer, and a plain sh.

PYTHON ?= python3
# Where the environment goes. `make lab VENV=` makes none and uses the one that is active.
VENV ?= .venv
# A folder with the data wheels, for a room without a network: make lab FROM=/media/usb/wheelhouse
FROM ?=
# How many tests, or notebooks, run at a time; each computes on one thread, with no reader's my_bert.
JOBS ?= 2
ONE_THREAD := OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} BERTEDU_MY_BERT="$(CURDIR)/build/my_bert"
# The language of the notebooks: make lab IN=ko
IN ?=
# Extra words for JupyterLab, for example LAB_ARGS="--no-browser --port 8890"
LAB_ARGS ?=

PY := $(if $(VENV),$(VENV)/bin/python,$(PYTHON))
NOTEBOOKS := $(wildcard notebooks/*.ipynb)
CHECKS := env data lint types unit notebooks

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help env course data weights lab test lint types unit nightly notebooks portable browser bench slides site korean clean

help:  ## show this list
	@echo "bertedu: BERT, taught by building it. Two commands: make lab, make test."
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "Options: PYTHON=python3.12 (which Python), VENV= (use the active environment),"
	@echo "  IN=ko (한국어), FROM=folder (data wheels on a USB stick), LAB_ARGS=--no-browser (passed to JupyterLab)"

# pip writes the path of the clone into a .pth file. Python 3.12 and older reads it in the encoding of
# the locale, and does not start where that cannot read it: with LC_ALL=C, in a folder called 과정.
# Written as ASCII it can be read everywhere.
ASCII_PTH := import pathlib, sysconfig; \
  [p.write_text('import sys; sys.path.append(%a)\n' % p.read_text('utf-8').strip()) \
  for p in pathlib.Path(sysconfig.get_path('purelib')).glob('__editable__.bertedu-*.pth') \
  if not p.read_text('utf-8').isascii()]

# $(call install,course) puts the learner's list into the environment, $(call install,classroom) that
# and what slides need, $(call install,dev) both and the maintainer's tools. An environment counts as done when its stamp holds the checksum of what it
# was made from, and the same or the longer list. The stamp is written last, so an install that was
# interrupted is done again, and so is one whose pyproject.toml or constraints.txt has changed, or
# whose folder was moved. pip can be silent for minutes: a line every TICK seconds shows that it works.
TICK ?= 20
define install
@home="$(VENV)"; [ -n "$$home" ] || home=$$($(PYTHON) -c 'import sys; print(sys.prefix)' 2>/dev/null); \
	stamp="$$home/.bertedu-installed"; \
	want="$$(cat pyproject.toml constraints.txt | cksum) $$(pwd -P)"; \
	have="$$(cat "$$stamp" 2>/dev/null)"; \
	if case "$(1) $$have" in "$(1) $$want $(1)"|"$(1) $$want dev"|"course $$want classroom") ;; *) false;; esac && $(PY) -c 'import pip' 2>/dev/null; then \
	  case "$(MAKELEVEL)$(MAKECMDGOALS)" in 0env|0course) echo "env: ready ($$home)";; esac; exit 0; fi; \
	if ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  echo "env: bertedu needs Python 3.11 or newer, and '$(PYTHON)' is missing or older."; \
	  echo "     Install one (python.org, apt, brew), then name it: make $(or $(MAKECMDGOALS),env) PYTHON=python3.12"; \
	  exit 1; fi; \
	if [ "$$(uname -sm)" = "Darwin x86_64" ]; then \
	  echo "env: this is a Mac with an Intel processor. PyTorch's last version for it is 2.2.2, too old for bertedu."; \
	  echo "     Linux in a container on this Mac will do: README.md, \"In a container\"."; \
	  exit 1; fi; \
	if [ -n "$(VENV)" ] && ! $(PYTHON) -c 'import venv, ensurepip' 2>/dev/null; then \
	  echo "env: '$(PYTHON)' cannot make environments: its modules venv and ensurepip are missing."; \
	  echo "     Debian, Ubuntu: sudo apt install python3-venv. Or use conda: see README.md."; \
	  exit 1; fi; \
	echo "env: installing bertedu[$(1)] and what it needs into $$home, in the versions of constraints.txt."; \
	echo "     The first time takes two to five minutes and 2 GB of disk."; \
	free=$$(df -Pk . | awk 'NR == 2 { print int($$4 / 1048576) }'); \
	if [ "$$free" -lt 4 ]; then echo "env: only $$free GB of disk are free here; 4 GB are safer. Going on."; fi; \
	if [ "$$(uname)" = Linux ] && [ -z "$$PIP_EXTRA_INDEX_URL$$PIP_NO_INDEX" ] && ! command -v nvidia-smi >/dev/null; then \
	  echo "     No NVIDIA GPU seen. If pip now fetches packages named nvidia-…, stop it (Ctrl-C) and type"; \
	  echo "     PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make $(or $(MAKECMDGOALS),env)"; \
	  echo "     That takes PyTorch's CPU build and saves several GB."; fi; \
	rm -f "$$stamp"; \
	if [ -n "$(VENV)" ] && ! $(PY) -c 'import pip' 2>/dev/null; then \
	  $(PYTHON) -m venv --clear "$(VENV)" || exit 1; fi; \
	quiet=; [ -t 1 ] || quiet=-q; \
	( t=0; while sleep $(TICK) >/dev/null 2>&1 && kill -0 $$$$ 2>/dev/null; do t=$$((t + $(TICK))); \
	  echo "env: still installing after $$t s$(if $(VENV),: $$(du -sk "$(VENV)" | awk '{ print int($$1 / 1000) }') MB so far)"; \
	done ) & \
	ticker=$$!; \
	LC_ALL= $(PY) -m pip install $$quiet --disable-pip-version-check -c constraints.txt -e '.[$(1)]' \
	  && LC_ALL= $(PY) -c "$(ASCII_PTH)"; failed=$$?; \
	kill $$ticker 2>/dev/null; wait $$ticker 2>/dev/null; \
	if [ "$$failed" != 0 ]; then \
	  echo "env: the install did not finish; the reason stands above. 'make $(or $(MAKECMDGOALS),env)' tries again and"; \
	  echo "     keeps what pip has already fetched. Without a network: README.md, \"A room without a network\"."; \
	  exit 1; fi; \
	printf '%s\n' "$$want $(1)" > "$$stamp"; \
	echo "env: done"
endef

env:  ## make .venv with all that tests need (first time: some minutes; then at once)
	$(call install,dev)

course:  ## make .venv with what the notebooks need, as make lab does
	$(call install,course)

data: course  ## fetch the two core texts, 9.4 MB, checked against their hashes (then at once)
	@$(PY) -m bertedu data fetch $(if $(FROM),--from "$(FROM)")

lab: course data  ## environment, data, then JupyterLab on the first notebook
	@echo "lab: starting JupyterLab; the address to open is printed below. Stop it with Ctrl-C."
	@root=; if [ "$$(id -u)" = 0 ]; then root=--allow-root; \
	  echo "lab: you are root, as in most containers; JupyterLab is told so with --allow-root."; fi; \
	$(if $(IN),export BERTEDU_LANG=$(IN) && $(PY) -m course.korean lab && )\
	JUPYTER_CONFIG_PATH="$(CURDIR)/binder$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
	$(PY) -m jupyterlab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/$(or $(IN),notebooks)/00_start_here.ipynb $$root $(LAB_ARGS)

test:  ## environment, data, lint, types, unit tests, every notebook: all that CI runs
	@begin=$$(date +%s); \
	for step in $(CHECKS); do \
	  echo "== $$step"; t=$$(date +%s); \
	  $(MAKE) --no-print-directory $$step || { \
	    echo "== $$step FAILED after $$(($$(date +%s) - t)) s. Alone: make $$step"; exit 1; }; \
	  echo "== $$step passed in $$(($$(date +%s) - t)) s"; \
	done; \
	echo "== all of $(CHECKS) passed in $$(($$(date +%s) - begin)) s"

lint: env  ## ruff: rules and layout, notebooks too
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: env  ## mypy: the package strictly, and that what the tests call exists
	@$(PY) -m mypy

unit: env  ## the tests in tests/, two at a time
	@$(ONE_THREAD) $(PY) -m pytest -n $(JOBS) --dist loadfile

nightly: env weights  ## what is too slow for every commit: more tests, the course with all solved
	@$(ONE_THREAD) $(PY) -m pytest -n $(JOBS) --dist loadfile -m nightly

weights: course  ## fetch the published weights and texts of 04, 08 to 11, 16 and a2, 211 MB (then at once)
	@$(PY) -m bertedu data fetch minilm bert-tiny e5-small korean $(if $(FROM),--from "$(FROM)")

notebooks: env weights  ## run every notebook and compare each output with the committed one (nbval)
	@if [ -z "$(NOTEBOOKS)" ]; then echo "notebooks: there is none in notebooks/ yet"; \
	else $(ONE_THREAD) PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(PY) -m pytest -p nbval_tolerance -n $(JOBS) --dist loadfile --nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg $(NOTEBOOKS); fi

# Other processors, as far as this one can play them: PyTorch, oneDNN, MKL and OpenBLAS can be told to
# compute as an older CPU does, and two threads add in another order than one.
OLD_CPU := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2 MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Nehalem
AVX2_CPU := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 MKL_CBWR=AVX2 OPENBLAS_CORETYPE=Haswell
# (with two threads one notebook at a time: two of them on two cores would wait for each other)
portable: env weights  ## every notebook as other processors would compute it: old, AVX2, two threads
	@failed=; for setting in "$(OLD_CPU)" "$(AVX2_CPU)" "OMP_NUM_THREADS=2 JOBS=1"; do \
	  echo "== notebooks with $$setting"; \
	  env $$setting $(MAKE) --no-print-directory notebooks || failed="$$failed$$(printf '\n  %s' "$$setting")"; \
	done; if [ -n "$$failed" ]; then echo "portable: outputs differ with$$failed"; exit 1; fi

browser: env  ## every notebook in a real JupyterLab in Chromium, and the attention view by hand
	@$(PY) -c 'import axe_playwright_python, playwright' 2>/dev/null || \
	  $(PY) -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[browser]'
	@$(PY) -m pytest -m browser tests/browser -rs

bench: env  ## speed and memory beside Hugging Face transformers
	@$(PY) -m benchmarks

slides:  ## the lectures as slides in build/slides, for a browser without a network
	$(call install,classroom)
	@$(PY) -m course slides build/slides

# TRAIN=1 runs the notebooks whose toys ask a model that they train: some minutes, after make weights
TRAIN ?=
site:  ## the course as a website in build/site: search, exercises, the package's documentation
	$(call install,classroom)
	@$(PY) -m course.classroom.site $(if $(TRAIN),--train)

IN_KOREAN := BERTEDU_LANG=ko BERTEDU_NOTEBOOKS="$(CURDIR)/build/ko"
korean:  ## the course in Korean: build/ko, its slides, and a site with both languages in build/site
	$(call install,classroom)
	@$(PY) -m course.korean build
	@$(IN_KOREAN) $(PY) -m course slides build/ko/slides
	@$(PY) -m course.classroom.site --languages
	@$(IN_KOREAN) $(PY) -m course.classroom.site --languages --out build/site-ko
	@mv build/site-ko build/site/ko

clean:  ## remove caches and build/; .venv and data/ stay
	@rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find bertedu course tests benchmarks notebooks \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} + 2>/dev/null || true
	@echo "clean: caches and build/ are gone. To start anew, remove .venv as well."
