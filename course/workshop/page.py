"""What is alive in a page, without network and kernel; where scripts may not run, a still part."""

import hashlib
import json

from course import language


class Told:
    """What is shown, and told in words to a reader without a browser."""

    alt: str

    def __repr__(self) -> str:
        """Return the alt text."""
        return self.alt


def for_script(value: object) -> str:
    """Write a value into a script; "<" is escaped, so that no text can end the script."""
    return json.dumps(value, sort_keys=True).replace("<", "\\u003c")


def named(kind: str, data: str) -> str:
    """Return a name that differs where the data do, so that views on a page do not mix."""
    return f"{kind}-{hashlib.sha256(data.encode()).hexdigest()[:12]}"


def alive(kind: str, name: str, data: object, still: str, script: str, begin: str) -> str:
    """Return the still part, and the script that puts something of this kind in its place.

    ``begin`` starts it: a statement about ``root``, every place of this name, and ``data``.
    """
    written = for_script(data)
    mark = f'data-{"play" if kind == "play" else "view"}="{named(name, written)}"'
    return language.page(
        f'<div class="bertedu-{kind}" {mark}>{still}</div><script type="module">{script}\n'
        f"const data = {written};\nfor (const root of document.querySelectorAll('[{mark}]'))\n"
        f"  {begin};\n</script>"
    )
