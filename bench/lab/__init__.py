"""The description lab: what the texts of tools do to a model, and what to make of them.

`descriptions` crosses description variants with the ways of calling, `ab` compares two versions of
a user's own descriptions, `ask` puts one description to a model with six questions.
"""
