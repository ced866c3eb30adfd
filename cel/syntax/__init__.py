"""Text to an expression: lexer, parser, macros."""
