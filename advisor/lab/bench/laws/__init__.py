"""What measured steps say: laws, pictures, and predictions held against them."""
