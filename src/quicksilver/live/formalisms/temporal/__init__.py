"""Past-time temporal logic over the events of endpoints, with instances and data.

A formula constrains the events that pass through an endpoint: it must hold at
every event, at the instance where the event occurs, looking back over what that
instance has seen so far. ``send -> once connect`` is the dissertation's "event
Send never precedes event Connect". Only safety can be said this way: what can be
broken by a finite history, and so be monitored.
"""
