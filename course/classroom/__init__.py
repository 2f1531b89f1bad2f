"""What a teacher needs: slides, pages, a site, progress, grades, questions."""
