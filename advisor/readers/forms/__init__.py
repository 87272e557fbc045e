"""One module a form of file: any file -> Launch."""
