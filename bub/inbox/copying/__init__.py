"""An inbox on its way from one store to another: what is carried, what each side gives and takes, and how it is led."""
