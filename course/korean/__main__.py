"""`python -m course.korean`: skeleton and check for those who write, build and lab for readers."""

import sys

from course.korean.alike import advice, problems, share
from course.korean.build import BUILT, build, hand_out
from course.korean.pages import ROOT, Page, pages, skeleton

USAGE = """python -m course.korean skeleton NAME …   write what is missing or stale, in English
python -m course.korean check [NAME …]    say what is missing, stale, or not as the English is
python -m course.korean build             make build/ko
python -m course.korean lab               and copy what is new into ko/, a learner's own folder"""


def check(page: Page, closely: bool) -> bool:
    """Print what is wrong with a page, with advice if looked at closely; whether nothing is."""
    wrong = problems(page)
    for name, said in wrong.items():
        print(f"{page.name} {name}: {'; '.join(said)}")
    for name, said in advice(page).items() if closely else ():
        print(f"{page.name} {name}: (advice) {'; '.join(said)}")
    print("{}: {} of {} cells in step".format(page.name, *share(page)))
    return not wrong


def main(words: list[str]) -> int:
    """Do what the command line says; 1 if something is not in step, 2 if it says nothing known."""
    command, *names = words or [""]
    unknown = [name for name in names if name not in pages()]
    if command not in {"skeleton", "check", "build", "lab"} or unknown:
        print(f"unknown: {', '.join(unknown)}" if unknown else USAGE)
        print(f"NAME is one of {', '.join(pages())}")
        return 2
    if command in {"build", "lab"}:
        build()
        print(f"written: {BUILT.relative_to(ROOT)}")
        if command == "lab":
            hand_out()
        return 0
    chosen = [pages()[name] for name in names or pages()]
    if command == "check":
        return sum(not check(page, bool(names)) for page in chosen) > 0
    for page in chosen:
        skeleton(page)
        print(f"written: {page.target.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
