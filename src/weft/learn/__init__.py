"""The course: chapters and puzzles with exercises that weft grades on the simulated GPU.

A chapter is a folder `chapters/chNN_name` with a text, exercises and solutions. A puzzle is a
folder `puzzles/pNN_name` with a solution for each language.

    exercise.py   one exercise, read from a row of a table
    chapter.py    finds the chapters
    puzzle.py     finds the puzzles
    header.py     the launch and the rules at the head of a learner's file
    grade.py      judges a file; program.py a whole program, by program_rules/
    judge.py      lets a function of the chapter judge; c_code.py runs C for it
    facts.py      what rules are about; share.py which threads work, and whether the host does
    picture.py    which thread touches what; drawing.py draws it
    export/       a static site and notebooks
    folder.py     a learner's files; progress.py their log of tries, hints and reviews
    explain/      explains a mistake: what happened, in which thread and line, and why
    messages.py   messages in other languages, by the tables of `languages/`
    scaffold.py   creates a chapter with places to fill in
    verify.py     proves that every exercise fails as given and that its solution passes
"""
