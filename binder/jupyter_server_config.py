"""For the Jupyter server of `make lab`: a notebook that is opened again tomorrow shows stills."""

from course.workshop.stills import on_save

c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.FileContentsManager.pre_save_hook = on_save
