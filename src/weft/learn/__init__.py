"""The course: chapters with exercises that weft grades on the simulated GPU.

A chapter is a folder `chapters/chNN_name` with `chapter.md`, `chapter.toml`, exercises and their
solutions. `chapter` finds them, `grade` judges an exercise, `folder` keeps a learner's files and
progress, `verify` proves that every exercise fails as given and that its solution passes.
"""
