package resmon

import "berth/transport/app"

func tools() []app.Tool { return nil }
