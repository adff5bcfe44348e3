"""Seeded random requests against a real gateway: whatever comes, it answers as documented and stays well."""
