"""Formulas, one function each, on arrays of any library that follows the array API standard."""
