"""The front end: lexer, parser, macros, and the abstract syntax tree."""
