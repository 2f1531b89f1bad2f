"""What a reader does with a page, and what a page then shows; tables of the two."""

from pathlib import Path
from typing import Any

HEAD = "<!doctype html><meta charset=utf-8>"
SLIDE = "(s, v) => { s.value = v; s.dispatchEvent(new Event('input')); }"


def written(path: Path, *views: Any) -> str:
    """Write a page with some views, as `nbconvert --to html` does; return its address."""
    path.write_text(HEAD + "".join(view._repr_html_() for view in views), encoding="utf-8")
    return path.as_uri()


def watched(browser: Any, *own: str, **how: Any) -> Any:
    """A page in a context of its own, offline unless told; `wrong` has what goes wrong on it.

    That is each error, and what is asked of another host than files and those that are its ``own``.
    """
    context = browser.new_context(**{"offline": True, **how})
    page, known = context.new_page(), ("file:", "data:", "blob:", "about:", *own)
    page.wrong = list[str]()
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    context.on("request", lambda r: None if r.url.startswith(known) else page.wrong.append(r.url))
    return page


def texts(page: Any, selector: str) -> list[str]:
    """What stands there; of an svg, too, which has no inner text."""
    return [
        one.evaluate("(n) => (n.innerText ?? n.textContent).trim()")
        for one in page.locator(selector).all()
    ]


def says(page: Any, which: int = 0) -> str:
    """What a toy or a view tells about what is chosen."""
    return str(page.locator(".says").nth(which).inner_text())


def ask(page: Any, call: str, argument: Any = None) -> Any:
    """Call a function of the first toy."""
    code = f"(x) => document.querySelector('.bertedu-play').toy.{call}"
    return page.evaluate(code, argument)


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def slide(page: Any, name: str, value: float) -> None:
    """Move a slider as a pointer does."""
    page.locator(f"input[aria-label='{name}']").first.evaluate(SLIDE, value)


def drag(page: Any, handle: Any, across: float, down: float) -> None:
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + across, y + down, steps=4)
    page.mouse.up()


def refusal(page: Any, *steps: tuple[Any, ...]) -> str | None:
    """Do one thing after another; return the first that is not answered, and what is there.

    A step is (act, where, with what). ("says", words), ("shows", selector, texts) and ("is",
    selector, attribute, value) expect; all else is done: ("press", keys …), ("slide", name, value),
    or an act of playwright's own. None: all is answered.
    """
    for step in steps:
        act, *given = step
        found = wanted = None
        if act == "says":
            found = says(page)
            wanted = found if given[0] in found else given[0]
        elif act == "shows":
            found, wanted = texts(page, given[0]), given[1]
        elif act == "is":
            found, wanted = page.locator(given[0]).first.get_attribute(given[1]), given[2]
        elif act == "press":
            press(page, *given)
        elif act == "slide":
            slide(page, *given)
        elif act == "choose":
            page.select_option(given[0], label=given[1])
        else:
            getattr(page, act)(*given)
        if found != wanted:
            return f"{step}: {found!r}"
    return None


def walk(page: Any, *steps: tuple[Any, ...]) -> None:
    """Do as `refusal`, and expect none."""
    said = refusal(page, *steps)
    assert said is None, said


def comes_true(page: Any, condition: str, given: Any) -> bool:
    """Whether a function of the page, of what is given, is true within five seconds."""
    from playwright.sync_api import TimeoutError as TooLate

    try:
        page.wait_for_function(condition, arg=given, timeout=5000)
    except TooLate:
        return False
    return True
