"""`python -m course`: the commands of the course."""

from course.cli import app

if __name__ == "__main__":
    app(prog_name="python -m course")
