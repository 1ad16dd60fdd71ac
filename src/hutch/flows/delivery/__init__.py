"""What a run did becomes a change: checked before it begins, tested, committed, proposed and recorded."""
