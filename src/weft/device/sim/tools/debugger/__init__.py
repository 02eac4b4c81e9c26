"""The debugger of the simulated GPU: stops a launch, shows and changes what its threads hold."""
