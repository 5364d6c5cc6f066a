"""Documents as models can read them: PDFs as text, page by page; what a request holds of them is said in `fitting`."""
