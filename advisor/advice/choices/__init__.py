"""What a question leaves open and the hardware decides: quantisation, engine, release."""
