"""Files of laboratories, from their bytes to a sheet: below the API and the pages, which both read them."""
