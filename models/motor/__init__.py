"""MOTOR: times to events from health records."""
